"""The command line: `inferlab <command>`. Each command lives in a module of its own."""
