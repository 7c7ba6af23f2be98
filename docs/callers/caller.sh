#!/bin/sh
# Asks Sluice whether a request of a user may pass. curl and grep only.
case $1 in '' | *[!A-Za-z0-9._@-]*) echo "usage: caller.sh USER" >&2 && exit 2 ;; esac
ms=$(printf '%.0f' "${TIMEOUT:-0.1}e3") && [ "$ms" -le 1000 ] || ms=1000
reply=$(curl --silent --max-time "${TIMEOUT:-0.1}" --write-out '\n%{http_code}' --header "Sluice-Timeout-Ms: $ms" \
  --header 'Content-Type: application/json' --header "Authorization: ${SLUICE_TOKEN:+Bearer $SLUICE_TOKEN}" \
  --data '{"method": "POST", "route": "/reports", "user": "'"$1"'"}' "$SLUICE_SERVER/ratelimit/check")
status=$(printf '%s' "$reply" | tail -n 1)
decided=${reply%%'"limits":'*} # each limit has members of the same names
figure() { printf '%s' "$decided" | grep -o "\"$1\":-\{0,1\}[0-9]*" | head -n 1 | cut -d : -f 2; }
case $status in
200) ;;
4*) echo "the question is wrong: $reply" >&2 && exit 2 ;;
*) echo "allowed, Sluice did not answer" && exit 0 ;; # or deny, if that is worse for you
esac
case $decided in
*'"allowed":true'*'"remaining":'*) echo "allowed, $(figure remaining) left" ;;
*'"allowed":true'*) echo "allowed, no limit applies" ;;
*) echo "denied with $(figure status) - wait $(figure retry_after_ms) ms" && exit 1 ;;
esac
