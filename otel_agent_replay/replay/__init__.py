"""Playback: a tape becomes a run again, nothing leaves the process, and a verdict says whether it was the same.

`tape` and `matching` are pure; `order` imposes the recorded completion order; `playback` is the answerer that
plugs into the boundary; `runs` opens runs on their tapes; `fence` and `isolation` are the walls; `child` and
`launch` are the two ends of a replay in a process of its own. This package never imports capture.
"""
