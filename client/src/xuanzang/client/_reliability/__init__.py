"""Rules for calls that fail or get no answer, without threads, sockets or gRPC calls.

`plan` decides for one call what to send where and when; `addresses`, `latency` and `budget` are what the calls of a
client have learnt. Every clock and every random number is passed in.
"""
