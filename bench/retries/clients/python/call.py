"""Makes one call with one client: call.py CLIENT METHOD URL."""
import asyncio
import sys

client, method, url = sys.argv[1:]
body = {"amount": 1}


def urllib3():
    import urllib3

    return urllib3.request(method, url, json=body if method == "POST" else None).status


def requests():
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3 import Retry

    with requests.Session() as s:
        s.mount("http://", HTTPAdapter(max_retries=Retry(total=3, backoff_factor=0.1, status_forcelist=[429, 503])))
        return s.request(method, url, json=body if method == "POST" else None).status_code


def aiohttp_retry():
    from aiohttp_retry import ExponentialRetry, RetryClient

    async def call():
        options = ExponentialRetry(attempts=3, statuses={429, 503})
        async with RetryClient(retry_options=options) as c, c.request(method, url, json=body) as answer:
            return answer.status

    return asyncio.run(call())


def httpx():
    import httpx

    transport = httpx.HTTPTransport(retries=3)
    with httpx.Client(transport=transport) as c:
        return c.request(method, url, json=body if method == "POST" else None).status_code


def openai():
    import openai

    c = openai.OpenAI(api_key="none", base_url=url)
    if method == "GET":
        return c.models.list()
    return c.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}])


def anthropic():
    import anthropic

    c = anthropic.Anthropic(api_key="none", base_url=url)
    if method == "GET":
        return c.models.list()
    return c.messages.create(model="m", max_tokens=10, messages=[{"role": "user", "content": "hello"}])


print(globals()[client.replace("-", "_")]())
