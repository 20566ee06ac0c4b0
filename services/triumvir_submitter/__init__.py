"""The submitter: the door. Accepts orders once, takes down commands, answers queries, refuses in words."""
