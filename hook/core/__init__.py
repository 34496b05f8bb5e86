"""The pure core: values in, values out. No client, clock, environment, files or logging."""
