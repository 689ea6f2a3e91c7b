"""Rules for calls that fail or get no answer, without threads, sockets or gRPC calls.

`plan` decides for one call what is sent where and when; `addresses`, `latency` and `budget` are what all calls of a
client have learnt together. Every clock and every random number is passed in.
"""
