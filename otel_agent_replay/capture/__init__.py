"""A live run becomes spans: the recorder (an observer of the boundary), run scopes and the decorators."""
