//! The five transactions, over keys and values.

use serde::Serialize;

use super::{ByHand, KeyValue, Reading, Tree, Writing, last_name_key, order_by_customer_key};
use crate::store::Result;
use crate::tpcc::contestant::{Answer, Ending, Session, missing};
use crate::tpcc::encoding::{decode_value, encode_value, key_of, number_at};
use crate::tpcc::population::DISTRICTS;
use crate::tpcc::records::{Customer, District, History, Item, Order, OrderLine, Stock, Table, Warehouse};
use crate::tpcc::requests::{
    DeliveryRequest, NewOrderRequest, OrderStatusRequest, PaymentRequest, StockLevelRequest, Who,
};
use crate::tpcc::rules;

/// A session.
pub(super) struct Terminal<'a, K> {
    of: &'a ByHand<K>,
    retries: u64,
}

impl<'a, K: KeyValue> Terminal<'a, K> {
    pub(super) fn new(of: &'a ByHand<K>) -> Self {
        Terminal { of, retries: 0 }
    }

    fn write(&mut self, mut work: impl FnMut(&mut dyn Writing) -> Result<Ending>) -> Result<Ending> {
        let mut ending = Ending::RolledBack;
        self.retries += self.of.store.write(&mut |writing| {
            ending = work(writing)?;
            Ok(ending != Ending::RolledBack)
        })?;
        Ok(ending)
    }
}

/// Lends the decoded row of a key to `see`. Returns what that returns, or none if there is no row.
fn get<T>(
    reading: &(impl Reading + ?Sized),
    table: Table,
    key: &[u8],
    mut see: impl FnMut(&[u8]) -> Result<T>,
) -> Result<Option<T>> {
    let mut seen = None;
    reading.get(Tree::Of(table), key, &mut |value| seen = Some(see(value)))?;
    seen.transpose()
}

/// Changes a row, decoded as `$row`, by `$change`, and puts it back. It must be there.
macro_rules! change {
    ($writing:expr, $table:expr, $key:expr, |$row:ident: $type:ty| $change:block) => {{
        let (writing, key): (&mut dyn Writing, _) = ($writing, key_of($key));
        let mut value = Vec::new();
        let result = get(writing, $table, &key, |bytes| {
            let mut $row: $type = decode_value(bytes)?;
            let result = $change;
            encode_value(&$row, &mut value)?;
            Ok(result)
        })?
        .ok_or_else(|| missing($table, &$key))?;
        writing.put(Tree::Of($table), &key, &value)?;
        result
    }};
}

/// What comes after all keys that begin with this.
fn after(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            break;
        }
    }
    end
}

/// The number of the customer who is meant.
fn customer_number(reading: &(impl Reading + ?Sized), (warehouse, district): (i32, i32), who: &Who) -> Result<i32> {
    match who {
        Who::Id(id) => Ok(*id),
        Who::LastName(name) => {
            let prefix = last_name_key(warehouse, district, name);
            let mut numbers = Vec::new();
            reading.scan(Tree::CustomersByName, [&prefix, &after(&prefix)], false, &mut |key, _| {
                numbers.push(number_at(&key[key.len() - 4..], 0));
                true
            })?;
            if numbers.is_empty() {
                return Err(missing(Table::Customer, &[warehouse, district]));
            }
            Ok(numbers[rules::middle_of(numbers.len() as u64) as usize])
        }
    }
}

/// What is read of an item.
struct ItemRead {
    price: i64,
    is_original: bool,
}

fn put_row(writing: &mut dyn Writing, table: Table, key: &[u8], row: &impl Serialize) -> Result<()> {
    let mut value = Vec::new();
    encode_value(row, &mut value)?;
    writing.put(Tree::Of(table), key, &value)
}

impl<K: KeyValue> Session for Terminal<'_, K> {
    fn new_order(&mut self, request: &NewOrderRequest) -> Result<Ending> {
        let NewOrderRequest { warehouse, district, customer, lines, entered } = request;
        let (warehouse, district, customer) = (*warehouse, *district, *customer);
        self.write(|writing| {
            let mut answer = Answer::default();
            let warehouse_tax = get(writing, Table::Warehouse, &key_of([warehouse]), |bytes| {
                Ok(decode_value::<Warehouse<'_>>(bytes)?.tax)
            })?
            .ok_or_else(|| missing(Table::Warehouse, &[warehouse]))?;
            let (district_tax, order) =
                change!(writing, Table::District, [warehouse, district], |row: District<'_>| {
                    row.next_order += 1;
                    (row.tax, row.next_order - 1)
                });
            let customer_key = [warehouse, district, customer];
            let discount = get(writing, Table::Customer, &key_of(customer_key), |bytes| {
                let row: Customer<'_> = decode_value(bytes)?;
                answer.text(row.last);
                answer.text(row.credit);
                Ok(row.discount)
            })?
            .ok_or_else(|| missing(Table::Customer, &customer_key))?;
            [discount, warehouse_tax, district_tax].into_iter().for_each(|number| answer.number(number));
            answer.number(order);
            let row = Order {
                warehouse,
                district,
                id: order,
                customer,
                entered: *entered,
                carrier: None,
                lines: lines.len() as i32,
                is_local: request.is_local(),
            };
            let order_key = key_of([warehouse, district, order]);
            put_row(writing, Table::Order, &order_key, &row)?;
            writing.put(Tree::OrdersByCustomer, &order_by_customer_key(&row), &[])?;
            writing.put(Tree::Of(Table::NewOrder), &order_key, &[])?;
            let mut sum = 0;
            let (mut name, mut info) = (String::new(), String::new());
            for (number, line) in (1..).zip(lines) {
                let item = get(writing, Table::Item, &key_of([line.item]), |bytes| {
                    let row: Item<'_> = decode_value(bytes)?;
                    name.clear();
                    name.push_str(row.name);
                    Ok(ItemRead { price: row.price, is_original: row.data.contains("ORIGINAL") })
                })?;
                let Some(item) = item else { return Ok(Ending::RolledBack) };
                let amount = item.price * i64::from(line.quantity);
                sum += amount;
                let stock_key = [line.supply_warehouse, line.item];
                let (left, is_brand) = change!(writing, Table::Stock, stock_key, |row: Stock<'_>| {
                    row.quantity = rules::left_in_stock(row.quantity, line.quantity);
                    row.ytd += i64::from(line.quantity);
                    row.orders += 1;
                    row.remote += i32::from(line.supply_warehouse != warehouse);
                    info.clear();
                    info.push_str(row.district_info[district as usize - 1]);
                    (row.quantity, item.is_original && row.data.contains("ORIGINAL"))
                });
                let row = OrderLine {
                    warehouse,
                    district,
                    order,
                    number,
                    item: line.item,
                    supply_warehouse: line.supply_warehouse,
                    delivered: None,
                    quantity: line.quantity,
                    amount,
                    district_info: &info,
                };
                put_row(writing, Table::OrderLine, &key_of([warehouse, district, order, number]), &row)?;
                answer.text(&name);
                [amount, i64::from(left), i64::from(is_brand)].into_iter().for_each(|number| answer.number(number));
            }
            answer.number(rules::total(sum, discount, warehouse_tax + district_tax));
            Ok(answer.ending())
        })
    }

    fn payment(&mut self, request: &PaymentRequest) -> Result<Ending> {
        let PaymentRequest { warehouse, district, customer_warehouse, customer_district, who, amount, date } = request;
        let (warehouse, district, amount) = (*warehouse, *district, *amount);
        let of = self.of;
        self.write(|writing| {
            let mut answer = Answer::default();
            let warehouse_name = change!(writing, Table::Warehouse, [warehouse], |row: Warehouse<'_>| {
                row.ytd += amount;
                answer.text(row.name);
                row.address.parts().into_iter().for_each(|part| answer.text(part));
                row.name.to_owned()
            });
            let district_name = change!(writing, Table::District, [warehouse, district], |row: District<'_>| {
                row.ytd += amount;
                answer.text(row.name);
                row.address.parts().into_iter().for_each(|part| answer.text(part));
                row.name.to_owned()
            });
            let id = customer_number(writing, (*customer_warehouse, *customer_district), who)?;
            let key = [*customer_warehouse, *customer_district, id];
            let mut data = String::new();
            let mut value = Vec::new();
            get(writing, Table::Customer, &key_of(key), |bytes| {
                let mut row: Customer<'_> = decode_value(bytes)?;
                row.balance -= amount;
                row.ytd_payment += amount;
                row.payments += 1;
                [row.first, row.middle, row.last].into_iter().for_each(|part| answer.text(part));
                row.address.parts().into_iter().for_each(|part| answer.text(part));
                answer.text(row.phone);
                answer.text(row.credit);
                [row.credit_limit, row.discount, row.balance].into_iter().for_each(|of| answer.number(of));
                data.clear();
                data.push_str(row.data);
                if row.credit == "BC" {
                    data = rules::bad_credit_data(key, (warehouse, district), amount, row.data);
                    answer.text(&data[..data.floor_char_boundary(200)]);
                }
                encode_value(&Customer { data: &data, ..row }, &mut value)
            })?
            .ok_or_else(|| missing(Table::Customer, &key))?;
            writing.put(Tree::Of(Table::Customer), &key_of(key), &value)?;
            let row = History {
                customer: id,
                customer_district: *customer_district,
                customer_warehouse: *customer_warehouse,
                district,
                warehouse,
                date: *date,
                amount,
                data: &rules::history_data(&warehouse_name, &district_name),
            };
            put_row(writing, Table::History, &key_of([of.next_history()]), &row)?;
            Ok(answer.ending())
        })
    }

    fn order_status(&mut self, request: &OrderStatusRequest) -> Result<Ending> {
        let OrderStatusRequest { warehouse, district, who } = request;
        let (warehouse, district) = (*warehouse, *district);
        let mut answer = Answer::default();
        self.of.store.read(&mut |reading| {
            let id = customer_number(reading, (warehouse, district), who)?;
            get(reading, Table::Customer, &key_of([warehouse, district, id]), |bytes| {
                let row: Customer<'_> = decode_value(bytes)?;
                [row.first, row.middle, row.last].into_iter().for_each(|part| answer.text(part));
                answer.number(row.balance);
                Ok(())
            })?
            .ok_or_else(|| missing(Table::Customer, &[warehouse, district, id]))?;
            let prefix = key_of([warehouse, district, id]);
            let mut last = None;
            reading.scan(Tree::OrdersByCustomer, [&prefix, &after(&prefix)], true, &mut |key, _| {
                last = Some(number_at(key, 3));
                false
            })?;
            let Some(order) = last else { return Ok(()) };
            let order_key = key_of([warehouse, district, order]);
            answer.number(order);
            get(reading, Table::Order, &order_key, |bytes| {
                let row: Order = decode_value(bytes)?;
                answer.number(row.entered);
                answer.number(row.carrier.unwrap_or(0));
                Ok(())
            })?
            .ok_or_else(|| missing(Table::Order, &[warehouse, district, order]))?;
            scan_lines(reading, &order_key, |_, row| {
                [row.item, row.supply_warehouse, row.quantity].into_iter().for_each(|of| answer.number(of));
                answer.number(row.amount);
                answer.number(row.delivered.unwrap_or(0));
                Ok(())
            })
        })?;
        Ok(answer.ending())
    }

    fn delivery(&mut self, request: &DeliveryRequest) -> Result<Ending> {
        let DeliveryRequest { warehouse, carrier, date } = *request;
        self.write(|writing| {
            let mut answer = Answer::default();
            for district in 1..=DISTRICTS {
                let prefix = key_of([warehouse, district]);
                let mut first = None;
                writing.scan(Tree::Of(Table::NewOrder), [&prefix, &after(&prefix)], false, &mut |key, _| {
                    first = Some(number_at(key, 2));
                    false
                })?;
                let Some(order) = first else { continue };
                let order_key = key_of([warehouse, district, order]);
                writing.delete(Tree::Of(Table::NewOrder), &order_key)?;
                answer.number(order);
                let customer = change!(writing, Table::Order, [warehouse, district, order], |row: Order| {
                    row.carrier = Some(carrier);
                    row.customer
                });
                let (mut delivered, mut sum) = (Vec::new(), 0);
                scan_lines(writing, &order_key, |key, row| {
                    sum += row.amount;
                    let mut value = Vec::new();
                    encode_value(&OrderLine { delivered: Some(date), ..row }, &mut value)?;
                    delivered.push((key.to_vec(), value));
                    Ok(())
                })?;
                for (key, value) in &delivered {
                    writing.put(Tree::Of(Table::OrderLine), key, value)?;
                }
                change!(writing, Table::Customer, [warehouse, district, customer], |row: Customer<'_>| {
                    row.balance += sum;
                    row.deliveries += 1;
                });
            }
            Ok(answer.ending())
        })
    }

    fn stock_level(&mut self, request: &StockLevelRequest) -> Result<Ending> {
        let StockLevelRequest { warehouse, district, threshold } = *request;
        let mut low = 0_i64;
        self.of.store.read(&mut |reading| {
            let key = [warehouse, district];
            let next = get(reading, Table::District, &key_of(key), |bytes| {
                Ok(decode_value::<District<'_>>(bytes)?.next_order)
            })?
            .ok_or_else(|| missing(Table::District, &key))?;
            let (from, to) = (key_of([warehouse, district, next - 20]), key_of([warehouse, district, next]));
            let (mut items, mut failed) = (Vec::new(), None);
            reading.scan(Tree::Of(Table::OrderLine), [&from, &to], false, &mut |_, value| {
                match decode_value::<OrderLine<'_>>(value) {
                    Ok(row) => items.push(row.item),
                    Err(error) => failed = Some(error),
                }
                failed.is_none()
            })?;
            failed.map_or(Ok(()), Err)?;
            items.sort_unstable();
            items.dedup();
            low = 0;
            for item in items {
                let quantity = get(reading, Table::Stock, &key_of([warehouse, item]), |bytes| {
                    Ok(decode_value::<Stock<'_>>(bytes)?.quantity)
                })?
                .ok_or_else(|| missing(Table::Stock, &[warehouse, item]))?;
                low += i64::from(quantity < threshold);
            }
            Ok(())
        })?;
        let mut answer = Answer::default();
        answer.number(low);
        Ok(answer.ending())
    }

    fn retries(&self) -> u64 {
        self.retries
    }
}

/// Lends the lines of an order.
fn scan_lines(
    reading: &(impl Reading + ?Sized),
    order: &[u8],
    mut see: impl FnMut(&[u8], OrderLine<'_>) -> Result<()>,
) -> Result<()> {
    let mut failed = None;
    reading.scan(Tree::Of(Table::OrderLine), [order, &after(order)], false, &mut |key, value| {
        failed = decode_value(value).and_then(|row| see(key, row)).err();
        failed.is_none()
    })?;
    failed.map_or(Ok(()), Err)
}
