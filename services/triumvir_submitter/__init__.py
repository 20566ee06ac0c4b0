"""The submitter: takes orders in, or refuses them in words."""
