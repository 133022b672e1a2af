"""Agents' trajectories in files of other people's formats -> runs: one reader a format, small and pure.

    reader          a file -> its recordings, one reader a format, registered in `imports.files`
    trajectory      a trajectory as data: turns          recorded        a trajectory -> a run
    chat_messages   lists of messages -> turns           tau_bench, tau2_bench, swe_agent, ljoukov_llm, who_and_when,
                                                             inspect_log, message_list: the formats

Nothing is executed and nothing is guessed into a fact: what a file does not tell (times, the model's name, requests as
they were sent) is an entry of the run's coverage report.
"""
