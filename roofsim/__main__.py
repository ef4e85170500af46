"""Run the command line: ``python -m roofsim``."""

from roofsim.cli.app import main

if __name__ == "__main__":
    main()
