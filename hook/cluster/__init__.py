"""The only package that talks to the API server, or imports its client library."""
