"""Build the image, on machines with or without a container registry."""
