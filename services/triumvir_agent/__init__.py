"""The agent service: hosts the agents that authors write."""
