import { discount, priceOf } from './pricing.js';
import { reserve } from './inventory.js';
export function checkout(lines, code) {
  let sum = 0;
  for (const [sku, qty] of lines) { reserve(sku, qty); sum += priceOf(sku) * qty; }
  return sum - discount(sum, code); // TODO: release what was reserved when paying fails
}
