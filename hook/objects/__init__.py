"""Read API objects as typed values."""
