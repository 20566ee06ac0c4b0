"""The scheduler: claims orders, sends requests to agents, folds their replies, takes commands, tells clients."""
