"""What crosses the wire: messages, their codec, and the names and ids they carry."""
