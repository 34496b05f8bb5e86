"""The program that is never done: what only a follower needs."""
