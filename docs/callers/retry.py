"""Calls an API and repeats what it denies: waits as long as it says, then a random time. Python 3.8 or newer."""
import random, sys, time, urllib.error, urllib.request

MOST = 60.0  # seconds; give up instead of waiting longer
for attempt in range(5):
    try:
        with urllib.request.urlopen(sys.argv[1], timeout=10) as answer:
            print(answer.read().decode(), "after", attempt + 1, "attempts")
            sys.exit(0)
    except urllib.error.HTTPError as error:
        if error.code not in (429, 503):
            raise
        wait = error.headers.get("Retry-After")
        if error.code == 429 and wait is None:
            break  # waiting does not help
    spread = min(MOST, 0.5 * 2**attempt)
    pause = (float(wait) if wait and wait.isdigit() else 0) + random.uniform(0, spread)
    if pause > MOST:
        break
    time.sleep(pause)
sys.exit("denied")
