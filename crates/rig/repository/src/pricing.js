const PRICES = { 'mug-01': 1250, 'tee-02': 2400, 'cap-03': 1900, 'pen-04': 299 };
export function priceOf(sku) {
  if (!(sku in PRICES)) throw new Error(`unknown sku ${sku}`);
  return PRICES[sku];
}
export function discount(subtotal, code) {
  return code === 'HALF' ? subtotal / 2 : 0; // FIXME: fractions of a cent
}
