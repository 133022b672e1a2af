"""A recorded model request put to a model again: no agent, no tool, no side effect.

    request     the recorded question, put together again byte for byte, and its recorded answer
    candidate   what is changed in it; `destination` where it goes, `keys` whose key opens that
    client      sending it: retries, waits, whole answers; `pace` how fast, how much and how far
    repeated    one question several times
    screen      every model step of a cohort: `plan` before it, `works` what is left to ask, `results` what came

Answers are kept as bytes; whether two of them would take an agent the same way is `compare`'s to say. README.md beside
this file says what a user must know.
"""
