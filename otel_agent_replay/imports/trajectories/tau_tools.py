"""What the tools of tau-bench and tau2-bench may change, as the benchmarks' own definitions of them say."""

from __future__ import annotations

from otel_agent_replay.model import SideEffect

_READ = (
    "calculate think get_user_details get_reservation_details get_flight_status search_direct_flight "
    "search_onestop_flight list_all_airports find_user_id_by_email find_user_id_by_name_zip get_order_details "
    "get_product_details get_item_details list_all_product_types"
)
_WRITE = (
    "book_reservation cancel_reservation update_reservation_baggages update_reservation_flights "
    "update_reservation_passengers send_certificate cancel_pending_order exchange_delivered_order_items "
    "modify_pending_order_address modify_pending_order_items modify_pending_order_payment modify_user_address "
    "return_delivered_order_items"
)
_EFFECTS = dict.fromkeys(_READ.split(), SideEffect.READ) | dict.fromkeys(_WRITE.split(), SideEffect.WRITE)


def tau_effect(name: str) -> SideEffect:
    """Return what a tool may change: external where the benchmark's retail and airline tools do not have it."""
    return _EFFECTS.get(name, SideEffect.EXTERNAL)
