const stock = new Map([['mug-01', 12], ['tee-02', 3], ['cap-03', 0], ['pen-04', 250]]);
export function reserve(sku, qty) {
  const have = stock.get(sku) ?? 0;
  if (have < qty) throw new RangeError(`only ${have} of ${sku} left`);
  stock.set(sku, have - qty);
}
