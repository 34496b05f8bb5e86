"""The one door to the API server. Nothing above it knows the client library."""
