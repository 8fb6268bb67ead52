"""``python -m holdtop`` is the ``holdtop`` command."""

from holdtop.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
