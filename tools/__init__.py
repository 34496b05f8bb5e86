"""Tools for people who work on this repository; nothing here goes into the image."""
