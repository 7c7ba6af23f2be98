"""Budgets of Sluice for the proxy of LiteLLM: reserve before a call, settle what it cost, refund a call that failed.

SLUICE_SERVER is the address of a node and SLUICE_TOKEN a token with the scope check. The name of the
reservation travels in the metadata of the call. litellm_call_id would not do: clients may choose it by a header.
"""

from __future__ import annotations

import os
import uuid
from typing import Any, Dict, Optional

import httpx
import litellm
from fastapi import HTTPException
from litellm._logging import verbose_proxy_logger
from litellm.integrations.custom_logger import CustomLogger

# Sluice answers within 100 ms. Without an answer the call is denied: nobody knows what is left of the budget.
TIMEOUT = httpx.Timeout(float(os.environ.get("SLUICE_TIMEOUT", "0.5")))
# How long a call may take. After it a fifth of the estimate stays charged, if the proxy has died meanwhile.
TTL_MS = 600_000
# The longest answer of a call that does not say max_tokens.
MAX_TOKENS = 4096
MICRO = 1_000_000  # the rules count millionths of a dollar
NOTE = "sluice_reservation"


class Budgets(CustomLogger):
    def __init__(self) -> None:
        super().__init__()
        self._client: Optional[httpx.AsyncClient] = None

    async def async_pre_call_hook(self, user_api_key_dict: Any, cache: Any, data: Dict[str, Any], call_type: str) -> Any:
        """Reserves the most that the call can cost, or denies it with what the rule says."""
        call = uuid.uuid4().hex
        notes(data).pop(NOTE, None)  # what a client sent
        answer = await self._post("reserve", {
            "user": user_api_key_dict.user_id or data.get("user") or "",
            "api_key": user_api_key_dict.api_key or "",
            "attributes": {name: value for name, value in (
                ("team", user_api_key_dict.team_id), ("org", user_api_key_dict.org_id), ("model", data.get("model"))) if value},
            "fields": estimate(data), "request_id": call, "ttl_ms": TTL_MS, "on_expire": {"percent": 20},
            "dialect": "openai"})
        if not answer["allowed"]:
            raise HTTPException(answer["status"], answer["body"]["error"]["message"], answer["headers"])
        notes(data)[NOTE] = call
        return data

    async def async_log_success_event(self, kwargs: Dict[str, Any], response_obj: Any, start_time: Any, end_time: Any) -> None:
        """Settles the usage of the answer. LiteLLM calls it once, for a stream at its end."""
        usage = getattr(response_obj, "usage", None)
        await self._settle(kwargs["litellm_params"], getattr(usage, "total_tokens", 0) or 0, kwargs.get("response_cost") or 0)

    async def async_post_call_failure_hook(self, request_data: Dict[str, Any], original_exception: Exception,
                                           user_api_key_dict: Any, traceback_str: Optional[str] = None) -> None:
        """Gives all back. LiteLLM also calls it for what the first hook denied."""
        try:
            await self._settle(request_data, 0, 0)
        except HTTPException as error:  # the client gets the first error
            verbose_proxy_logger.warning("a failed call is not refunded: %s", error.detail)

    async def _settle(self, data: Dict[str, Any], tokens: int, cost: float) -> None:
        call = notes(data).get(NOTE)
        if call:  # a call that was denied, or never came to the first hook, has none
            await self._post("settle", {"request_id": call, "fields": {"tokens": tokens, "cost": round(cost * MICRO)}})

    async def _post(self, what: str, body: Dict[str, Any]) -> Dict[str, Any]:
        if self._client is None:  # here, because the client belongs to the event loop of the calls
            token = os.environ.get("SLUICE_TOKEN")
            self._client = httpx.AsyncClient(base_url=os.environ["SLUICE_SERVER"], timeout=TIMEOUT,
                                             headers={"Authorization": "Bearer " + token} if token else {})
        try:
            response = await self._client.post("/ratelimit/" + what, json=body)
        except httpx.TransportError as error:
            raise HTTPException(503, "The budgets are unavailable.") from error
        if response.is_error:
            raise HTTPException(503, f"The budgets are unavailable: {response.json().get('detail')}")
        return response.json()


def notes(data: Dict[str, Any]) -> Dict[str, Any]:
    """The metadata that LiteLLM keeps with a call from its first hook to its last."""
    return data["litellm_metadata"] if data.get("litellm_metadata") else data.setdefault("metadata", {})


def estimate(data: Dict[str, Any]) -> Dict[str, int]:
    """The tokens of the prompt and of the longest answer, and their price in millionths of a dollar."""
    model, answer = data["model"], data.get("max_completion_tokens") or data.get("max_tokens") or MAX_TOKENS
    prompt = litellm.token_counter(model=model, messages=data.get("messages"))
    cost = sum(litellm.cost_per_token(model=model, prompt_tokens=prompt, completion_tokens=answer))
    return {"tokens": prompt + answer, "cost": round(cost * MICRO)}


budgets = Budgets()
