"""Build the image, on machines with or without a container registry, and say what fills it."""
