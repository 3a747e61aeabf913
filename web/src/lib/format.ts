// Formats numbers, times and money for display, as in the terminal UI.
import { oneLine } from "./safe";

/** `120ms`, `45s`, `1m 30s`, `1h 1m 1s`. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return "";
  const whole = Math.max(0, Math.trunc(ms));
  if (whole < 1000) return `${whole}ms`;
  return seconds(whole);
}

/** The same for what is still growing: no milliseconds, so that it does not flicker. */
export function seconds(ms: number): string {
  const total = Math.max(0, Math.floor(ms / 1000));
  const [h, m, s] = [Math.floor(total / 3600), Math.floor((total % 3600) / 60), total % 60];
  if (h >= 24) return `${Math.floor(h / 24)}d ${h % 24}h`;
  if (h > 0) return `${h}h ${m}m ${s}s`;
  return m > 0 ? `${m}m ${s}s` : `${s}s`;
}

/** How long ago, in one unit. */
export function ago(ms: number): string {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m`;
  return s < 86_400 ? `${Math.floor(s / 3600)}h` : `${Math.floor(s / 86_400)}d`;
}

/** `950`, `1.2k`, `48k`, `1.2M`, `3G`: cut, not rounded. */
export function count(n: number | null | undefined): string {
  if (n === null || n === undefined) return "";
  if (n < 1000) return String(n);
  const [unit, letter] = n < 1e6 ? [1e3, "k"] : n < 1e9 ? [1e6, "M"] : [1e9, "G"];
  const [whole, tenth] = [Math.floor(n / unit), Math.floor(((n % unit) * 10) / unit)];
  return whole < 10 && tenth > 0 ? `${whole}.${tenth}${letter}` : `${whole}${letter}`;
}

const wholeFormat = new Intl.NumberFormat("en-US");

/** `12,003`. */
export const whole = (n: number): string => wholeFormat.format(n);

/** `1 tool`, `2 tools`. */
export const many = (n: number, word: string): string => `${n} ${word}${n === 1 ? "" : "s"}`;

/** `$0.92` of micro-dollars; below a cent as many decimals as the first digit needs; `≥` before a lower bound, which is cut. */
export function money(micro: number | null | undefined, floor = false): string {
  if (micro === null || micro === undefined) return "";
  const [mark, sign, amount] = [floor ? "≥" : "", micro < 0 ? "-" : "", Math.abs(micro)];
  if (amount === 0) return `${mark}$0`;
  const rounded = (places: number): number => {
    const unit = 10 ** (6 - places);
    return Math.floor((floor ? amount : amount + Math.floor(unit / 2)) / unit);
  };
  let places = [2, 3, 4, 5].find((some) => amount >= 10 ** (6 - some)) ?? 6;
  if (places > 2 && rounded(places) === 10) places -= 1;
  const [all, scale] = [rounded(places), 10 ** places];
  return `${mark}${sign}$${Math.floor(all / scale)}.${String(all % scale).padStart(places, "0")}`;
}

const clockFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dayFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

/** `12:40:51`, local time. */
export function clock(ms: number | null | undefined): string {
  return ms === null || ms === undefined ? "" : clockFormat.format(ms);
}

/** `20:43:15.042`. */
export const milliseconds = (ms: number): string => `${clock(ms)}.${String(Math.abs(Math.trunc(ms) % 1000)).padStart(3, "0")}`;

/** `22 Nov 2026`. */
const dateFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });

/** A day by its start in the form of UTC. */
export const date = (ms: number): string => dateFormat.format(ms);

export function day(ms: number | null | undefined): string {
  return ms === null || ms === undefined ? "" : dayFormat.format(ms);
}

/** The last part of a path. One of Windows, `C:\\…` or `\\\\…`, has both separators. */
export function base(path: string | null): string {
  if (!path) return "";
  const parts = path.split(/^([A-Za-z]:[\\/]|\\\\)/.test(path) ? /[\\/]/ : "/").filter((part) => part !== "");
  return parts.at(-1) ?? path;
}

/** `opus` for `claude-opus-4-1-20250805`: the distinctive part of a model's name. */
export function model(name: string | null): string {
  if (!name) return "";
  return oneLine(name).replace(/^claude-/, "").replace(/-\d{8}$/, "");
}
