"""Turns a model into something that answers: requests, sampling, the two generation loops."""
