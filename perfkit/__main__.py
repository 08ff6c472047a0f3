"""`python -m perfkit`."""

from perfkit.cli import main

if __name__ == "__main__":
    main()
