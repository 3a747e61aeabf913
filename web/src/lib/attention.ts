// The order of sessions in lists. The server classifies their urgency: see `SessionRow::attention_place` in crates/model.
import type { Attention } from "../model";

const CLASSES: Attention[] = ["waiting", "trouble", "live", "ended"];

export interface Placed {
  id: string;
  attention: Attention;
  started_at_ms: number | null;
  last_event_at_ms: number | null;
}

/** The most urgent first, then by start; ended ones by their end, the newest first. */
export function byAttention(one: Placed, other: Placed): number {
  const time = (of: Placed): number => (of.attention === "ended" ? -(of.last_event_at_ms ?? 0) : (of.started_at_ms ?? 0));
  const classes = CLASSES.indexOf(one.attention) - CLASSES.indexOf(other.attention);
  return classes || time(one) - time(other) || (one.id < other.id ? -1 : 1);
}
