"""Threads of a test: the first one that fails stops the others, and what was wrong is kept.

  @guarded
  def work(...):            as the target of a thread
      while not stop.is_set(): ...
  sys.exit('\n'.join(wrong) or 0)
"""
import threading

stop, wrong = threading.Event(), []


def guarded(f):
    def run(*args):
        try:
            f(*args)
        except BaseException as e:
            wrong.append(f'{f.__name__}: {e!r}')
            stop.set()
    return run
