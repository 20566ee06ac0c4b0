"""The supervisor: recovers what got stuck."""
