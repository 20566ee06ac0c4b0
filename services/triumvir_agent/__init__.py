"""The agent process: runs an author's operations, each request at most once at a time and fenced."""
