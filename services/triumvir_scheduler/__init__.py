"""The scheduler: claims orders and runs their steps."""
