"""What an upgrade will take, and what would block it. Pure."""
