"""The one exception type that users see."""


class InferlabError(Exception):
    """A problem the user can act on. The message says what was wrong, where, and what to do.

    The command line prints it as one `error:` line, without a traceback, and exits with status 1.
    """
