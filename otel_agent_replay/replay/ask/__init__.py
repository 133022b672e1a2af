"""A recorded model request put to a model again: no agent, no tool, no side effect.

    request     the recorded question, put together again byte for byte, and its recorded answer
    candidate   what is changed in it, where it goes, and whose key opens that
    client      sending it: retries, waits, whole answers
    screen      every model step of a cohort, within a budget, resumable

Answers are kept as bytes; whether two of them would take an agent the same way is `compare`'s to say.
"""
