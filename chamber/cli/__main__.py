"""`python -m chamber.cli`: the same as `chamber`."""

from chamber.cli import main

if __name__ == "__main__":
    main(prog_name="chamber")
