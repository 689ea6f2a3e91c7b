"""How an RPC comes in: the listener, who calls, refusals before it is read, and places for those in progress."""
