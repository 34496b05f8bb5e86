"""The flags of all commands: names, types, help and validation."""
