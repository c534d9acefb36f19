"""`python -m inferlab` does what the `inferlab` command does."""

from inferlab.cli.main import main

main()
