//! The arithmetic of the transactions, the same for all stores.

/// What is left of `quantity` after an order (clause 2.4.2.2): stock is filled up again before it runs out.
pub(crate) fn left_in_stock(quantity: i32, ordered: i32) -> i32 {
    if quantity >= ordered + 10 { quantity - ordered } else { quantity - ordered + 91 }
}

/// What an order costs: the sum of its lines, less the discount, with both taxes.
pub(crate) fn total(lines: i64, discount: i64, taxes: i64) -> i64 {
    (i128::from(lines) * i128::from(10_000 - discount) * i128::from(10_000 + taxes) / 100_000_000) as i64
}

/// The place of the customer who is meant among `count` of one last name in the order of first names (clause 2.5.2.2),
/// from 0.
pub(crate) fn middle_of(count: u64) -> u64 {
    count.div_ceil(2) - 1
}

/// What is noted of a customer of bad credit: the payment, before what stood there, at most 500 letters.
pub(crate) fn bad_credit_data(
    customer: [i32; 3],
    (warehouse, district): (i32, i32),
    amount: i64,
    before: &str,
) -> String {
    let [of_warehouse, of_district, id] = customer;
    let mut data = format!("{id} {of_district} {of_warehouse} {district} {warehouse} {amount}|{before}");
    data.truncate(data.floor_char_boundary(500));
    data
}

/// What stands in the history of a payment.
pub(crate) fn history_data(warehouse_name: &str, district_name: &str) -> String {
    format!("{warehouse_name}    {district_name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stock_never_runs_out() {
        assert_eq!(left_in_stock(20, 10), 10);
        assert_eq!(left_in_stock(19, 10), 100);
    }

    #[test]
    fn totals_and_middles_are_those_of_the_specification() {
        assert_eq!(total(10_000, 1_000, 2_000), 10_800);
        assert_eq!([1, 2, 3, 4].map(middle_of), [0, 0, 1, 1]);
        let data = bad_credit_data([1, 2, 3], (4, 5), 600, &"x".repeat(500));
        assert!(data.starts_with("3 2 1 5 4 600|xxx") && data.len() == 500);
    }
}
