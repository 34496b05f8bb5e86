"""The command line's flags, once for all commands: what each is called, how it is read, what is refused."""
