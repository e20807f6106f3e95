"""``python -m cannlab``: the command line."""

from cannlab.cli.app import main

if __name__ == "__main__":
    main()
