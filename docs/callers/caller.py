"""Asks Sluice whether a request of a user may pass. Python 3.8 or newer, standard library only."""
import json, os, sys, urllib.error, urllib.request

def ask(check):
    """Returns the answer, or None if there was none in time."""
    timeout = float(os.environ.get("TIMEOUT", "0.1"))
    headers = {"Content-Type": "application/json", "Sluice-Timeout-Ms": str(max(1, min(int(timeout * 1000), 1000)))}
    if os.environ.get("SLUICE_TOKEN"):
        headers["Authorization"] = "Bearer " + os.environ["SLUICE_TOKEN"]
    request = urllib.request.Request(os.environ["SLUICE_SERVER"] + "/ratelimit/check", json.dumps(check).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return json.load(answer)
    except (OSError, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError) and error.code < 500:
            raise  # the question is wrong: 400, 401, 403 or 422
        return None

answer = ask({"method": "POST", "route": "/reports", "user": sys.argv[1]})
if answer is None:
    print("allowed, Sluice did not answer")  # or deny, if that is worse for you
elif answer["allowed"]:
    print("allowed,", f'{answer["remaining"]} left' if "remaining" in answer else "no limit applies")
else:
    print("denied with", answer["status"], "- wait", answer["retry_after_ms"], "ms")  # send answer["headers"] and ["body"]
    sys.exit(1)
