"""Start the bundler as ``python -m bundler``."""

from bundler.cli import main

if __name__ == "__main__":
    main()
