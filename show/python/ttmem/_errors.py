"""What can go wrong, with what to do about it."""


class TtmemError(RuntimeError):
    """The account of this process cannot answer."""


class NotAttachedError(TtmemError):
    """This process is not tracked: the library was not loaded before ttnn."""
