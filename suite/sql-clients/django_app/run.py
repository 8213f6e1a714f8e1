"""Django: migrations, models, queries, transactions and introspection of an application."""

import contextlib
import datetime as dt
import decimal
import io
import os
import sys
import tempfile
import threading
import uuid

here = os.path.dirname(os.path.abspath(__file__))
made = tempfile.TemporaryDirectory()
sys.path[:0] = [here, os.path.dirname(here), made.name]
os.makedirs(os.path.join(made.name, "shop_migrations"))
open(os.path.join(made.name, "shop_migrations", "__init__.py"), "w").close()
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"

import django
from django.core.management import call_command
from django.db import IntegrityError, OperationalError, connection, models, transaction
from django.db.models import Avg, Count, Exists, F, Max, OuterRef, Q, Subquery, Sum, Window
from django.db.models.functions import Coalesce, ExtractYear, Rank, TruncMonth, Upper

django.setup()

from django.contrib.auth.models import Group, User
from django.contrib.postgres.aggregates import ArrayAgg, StringAgg
from shop.models import Product, Shelf

from checks import check, expect, finish


def said(*words, **options):
    """What a command of manage.py prints."""
    out = io.StringIO()
    call_command(*words, stdout=out, **options)
    return out.getvalue()


def state(call):
    """The SQLSTATE of a call that must fail."""
    try:
        with transaction.atomic():
            call()
    except django.db.Error as error:
        return error.__cause__.sqlstate
    return "no error"


@check
def migrations():
    said("makemigrations", "shop", name="first")
    assert "Applying shop.0001_first... OK" in said("migrate")
    expect(said("makemigrations", "--check", "--dry-run"), "No changes detected\n")
    expect(said("migrate").splitlines()[-1].strip(), "No migrations to apply.")
    expect("[X] 0001_first" in said("showmigrations", "shop"), True)
    expect(User.objects.count(), 0)
    expect(Group.objects.create(name="clerks").permissions.count(), 0)
    said("check", "--database", "default")


@check
def objects_are_kept():
    shelf = Shelf.objects.create(name="top", colours=["red", 'b,l"ue'])
    row = Product.objects.create(
        shelf=shelf,
        code="A1",
        price=decimal.Decimal("12.50"),
        facts={"pages": 300, "by": ["Ann", None], "ä": {"x": 1.5}},
        picture=bytes(range(256)),
        weight=0.1,
        stock=3,
        day=dt.date(2024, 2, 29),
        address="fe80::1",
        delivery=dt.timedelta(days=2, microseconds=5),
    )
    got = Product.objects.select_related("shelf").get(pk=row.pk)
    expect(
        (got.price, got.price_with_tax, got.facts, bytes(got.picture), got.weight),
        (row.price, 25, row.facts, row.picture, 0.1),
    )
    expect(
        (got.day, got.delivery, got.address, got.shelf.colours), (row.day, row.delivery, "fe80::1", ["red", 'b,l"ue'])
    )
    assert abs(got.since - dt.datetime.now(dt.timezone.utc)) < dt.timedelta(hours=1), got.since
    other = Product.objects.create(shelf=shelf, code="A2", price=1)
    row.related.add(other)
    expect([product.code for product in other.related.all()], ["A1"])
    expect(Product.objects.update_or_create(code="A2", defaults={"price": 2})[1], False)
    expect(Shelf.objects.get_or_create(name="low")[1], True)
    expect(Product.objects.filter(code="A2").update(stock=F("stock") + 5, price=F("price") * 2), 1)
    expect(Product.objects.values_list("stock", "price", "price_with_tax").get(code="A2"), (5, 4, 8))
    Product.objects.bulk_create(
        [
            Product(
                shelf=shelf, code=f"B{n:04}", price=n, stock=n % 3, day=dt.date(2024, n % 12 + 1, 1), facts={"n": n}
            )
            for n in range(1000)
        ]
    )
    changed = [Product(shelf=shelf, code=f"B{n:04}", price=7000) for n in range(2)]
    Product.objects.bulk_create(
        changed, update_conflicts=True, unique_fields=["shelf", "code"], update_fields=["price"]
    )
    expect(Product.objects.filter(price=7000).count(), 2)
    expect(len(Product.objects.bulk_create(changed, ignore_conflicts=True)), 2)
    some = list(Product.objects.filter(code__gte="B0990"))
    for product in some:
        product.weight = product.stock / 2
    expect(Product.objects.bulk_update(some, ["weight"]), 10)
    expect(Product.objects.filter(code__startswith="B09", stock=0).delete()[0], 34)
    expect(Product.objects.count(), 968)


@check
def queries():
    products = Product.objects
    expect(products.filter(facts__pages__gt=100).get().code, "A1")
    expect(products.filter(facts__by__0="Ann", facts__has_key="ä", facts__contains={"pages": 300}).count(), 1)
    expect(products.filter(facts__ä__x=1.5).count(), 1)
    expect(list(products.filter(shelf__colours__contains=["red"]).values_list("code", flat=True)[:2]), ["A1", "A2"])
    expect(products.filter(Q(code__iexact="a1") | Q(code__iregex=r"^A2$"), ~Q(kind="g")).count(), 2)
    expect(products.filter(day__year=2024, day__month__in=[2, 3]).exclude(code="A1").count(), 168)
    months = (
        products.filter(day__isnull=False)
        .annotate(month=TruncMonth("day"))
        .values("month")
        .annotate(count=Count("*"), dear=Max("price"), mean=Avg("price"))
        .order_by("month")
    )
    expect((len(months), months[0]["month"], months[0]["count"]), (12, dt.date(2024, 1, 1), 75))
    expect(
        products.aggregate(sum=Sum("stock"), none=Coalesce(Sum("stock", filter=Q(code="no")), 0)),
        {"sum": 1007, "none": 0},
    )
    ranked = (
        products.annotate(place=Window(Rank(), order_by=F("price").desc()))
        .filter(place__lte=3)
        .order_by("place", "code")
    )
    expect([(product.code, product.place) for product in ranked], [("B0000", 1), ("B0001", 1), ("B0998", 3)])
    shelves = Shelf.objects.annotate(
        count=Count("products"),
        first=Subquery(products.filter(shelf=OuterRef("pk")).order_by("code").values("code")[:1]),
        used=Exists(products.filter(shelf=OuterRef("pk"))),
    ).order_by("-count")
    expect(
        [(shelf.name, shelf.count, shelf.first, shelf.used) for shelf in shelves],
        [("top", 968, "A1", True), ("low", 0, None, False)],
    )
    expect(Shelf.objects.prefetch_related("products").get(name="top").products.filter(code__lt="B").count(), 2)
    expect(
        products.filter(code__lt="B").aggregate(
            codes=ArrayAgg("code", ordering="-code"), text=StringAgg("code", "+", ordering="code")
        ),
        {"codes": ["A2", "A1"], "text": "A1+A2"},
    )
    expect(
        products.values("shelf__name").annotate(loud=Upper("code"), year=ExtractYear("day")).order_by("code")[0],
        {"shelf__name": "top", "loud": "A1", "year": 2024},
    )
    expect(products.filter(code="A1").union(products.filter(code="A2")).order_by("code").count(), 2)
    expect([product.code for product in products.order_by(F("day").desc(nulls_first=True))[:1]], ["A2"])
    expect(list(products.dates("day", "month"))[0], dt.date(2024, 1, 1))
    expect(sum(1 for _ in products.iterator(chunk_size=100)), 968)
    expect(products.order_by("shelf", "code").distinct("shelf").get().code, "A1")
    expect(products.reverse()[0].code, "B0998")
    expect(list(products.raw("SELECT id, code FROM shop_product WHERE code = %s", ["A1"]))[0].code, "A1")
    assert products.filter(code="A1").explain()


@check
def constraints():
    shelf = Shelf.objects.get(name="top")
    expect(state(lambda: Shelf.objects.create(name="top")), "23505")
    expect(state(lambda: Product.objects.create(shelf=shelf, code="A1", price=1)), "23505")
    expect(state(lambda: Product.objects.create(shelf=shelf, code="new", price=-1)), "23514")
    expect(state(lambda: Product.objects.create(shelf_id=999, code="new", price=1)), "23503")
    Product.objects.create(shelf=shelf, code="Go", price=1, kind="g")
    expect(state(lambda: Product.objects.create(shelf=shelf, code="GO", price=1, kind="g")), "23505")
    Product.objects.create(shelf=shelf, code="GO", price=1).delete()
    try:
        Product(shelf=shelf, code="A1", price=-1).full_clean()
    except django.core.exceptions.ValidationError as error:
        assert "__all__" in error.message_dict
    expect(Product.objects.filter(code__iexact="go").delete()[0], 1)


@check
def transactions():
    expect(transaction.get_autocommit(), True)
    with transaction.atomic():
        Shelf.objects.create(name="kept")
        try:
            with transaction.atomic():
                Shelf.objects.create(name="lost")
                Shelf.objects.create(name="top")
        except IntegrityError:
            pass
        called = []
        transaction.on_commit(lambda: called.append(1))
    expect((called, sorted(Shelf.objects.values_list("name", flat=True))), ([1], ["kept", "low", "top"]))
    with contextlib.suppress(ZeroDivisionError), transaction.atomic():
        Shelf.objects.all().delete()
        1 / 0
    expect(Shelf.objects.count(), 3)
    seen = []

    def locked():
        try:
            with transaction.atomic():
                seen.append(
                    Shelf.objects.select_for_update(skip_locked=True).filter(name__in=["top", "low"]).get().name
                )
                Shelf.objects.select_for_update(nowait=True).get(name="top")
        except OperationalError as error:
            seen.append(error.__cause__.sqlstate)
        finally:
            connection.close()

    with transaction.atomic():
        product = Product.objects.select_related("shelf").select_for_update(of=("self", "shelf")).get(code="A1")
        other = threading.Thread(target=locked)
        other.start()
        other.join()
        expect((product.shelf.name, seen), ("top", ["low", "55P03"]))

    def work():
        for _ in range(20):
            with transaction.atomic():
                product = Product.objects.select_for_update().get(code="A2")
                product.stock += 1
                product.save(update_fields=["stock"])
        connection.close()

    before = Product.objects.get(code="A2").stock
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(Product.objects.get(code="A2").stock, before + 80)


@check
def introspection():
    text = said("inspectdb", "shop_product", "shop_shelf")
    for line in [
        "class ShopProduct(models.Model):",
        "    id = models.UUIDField(primary_key=True)",
        "    code = models.CharField(max_length=20)",
        "    price = models.DecimalField(max_digits=12, decimal_places=2)",
        "    facts = models.JSONField()",
        "    picture = models.BinaryField(blank=True, null=True)",
        "    weight = models.FloatField(blank=True, null=True)",
        "    delivery = models.DurationField(blank=True, null=True)",
        "    address = models.GenericIPAddressField(blank=True, null=True)",
        "    shelf = models.ForeignKey('ShopShelf', models.DO_NOTHING)",
        "        unique_together = (('shelf', 'code'),)",
        "    id = models.BigAutoField(primary_key=True)",
        "    name = models.CharField(unique=True, max_length=40)",
    ]:
        assert f"\n{line}\n" in text, f"inspectdb has no line {line!r}:\n{text}"
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, "shop_product")
        expect((found["code_of_games"]["unique"], found["code_of_games"]["index"]), (True, True))
        expect((found["by_price"]["columns"], found["by_price"]["orders"]), (["price", "code"], ["DESC", "ASC"]))
        expect((found["price_is_no_debt"]["check"], found["code_of_a_shelf"]["columns"]), (True, ["shelf_id", "code"]))
        expect([one["foreign_key"] for one in found.values() if one["foreign_key"]], [("shop_shelf", "id")])
        expect(
            connection.introspection.get_sequences(cursor, "shop_shelf"),
            [{"name": "shop_shelf_id_seq", "table": "shop_shelf", "column": "id"}],
        )


@check
def schemas_change():
    title = models.CharField(max_length=60, default="none", db_index=True)
    title.set_attributes_from_name("title")
    longer = models.TextField(null=True)
    longer.set_attributes_from_name("heading")
    with connection.schema_editor() as editor:
        editor.add_field(Shelf, title)
        editor.alter_field(Shelf, title, longer)
        editor.alter_db_table(Shelf, "shop_shelf", "shop_board")
        editor.alter_db_table(Shelf, "shop_board", "shop_shelf")
        editor.execute("ALTER TABLE shop_shelf ADD CONSTRAINT heading_and_name UNIQUE (heading, name)")
        editor.execute("ALTER TABLE shop_shelf RENAME CONSTRAINT heading_and_name TO pair")
        editor.execute("ALTER TABLE shop_shelf DROP CONSTRAINT pair")
        editor.remove_field(Shelf, longer)
        editor.remove_index(Product, Product._meta.indexes[0])
        editor.add_index(Product, Product._meta.indexes[0])
        editor.remove_constraint(Product, Product._meta.constraints[2])
        editor.add_constraint(Product, Product._meta.constraints[2])
        old, new = Product._meta.get_field("code"), models.CharField(max_length=200)
        new.set_attributes_from_name("code")
        new.model = Product
        editor.alter_field(Product, old, new)
        editor.alter_field(Product, new, old)
    with connection.cursor() as cursor:
        names = [column.name for column in connection.introspection.get_table_description(cursor, "shop_shelf")]
        expect(names, ["id", "name", "colours"])
    concurrent = models.Index(fields=["weight"], name="by_weight")
    with connection.schema_editor(atomic=False) as editor:
        editor.add_index(Product, concurrent, concurrently=True)
        editor.remove_index(Product, concurrent, concurrently=True)


@check
def data_goes_out_and_in():
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(said("dumpdata", "shop"))
        file.flush()
        said("flush", interactive=False)
        expect((Product.objects.count(), Shelf.objects.count()), (0, 0))
        said("loaddata", file.name)
    expect((Product.objects.count(), Shelf.objects.count()), (968, 3))
    expect(Shelf.objects.create(name="after").pk > 3, True)
    expect(Product.objects.get(code="A1").related.get().code, "A2")


@check
def migrations_back():
    assert "Unapplying shop.0001_first... OK" in said("migrate", "shop", "zero")
    expect([name for name in connection.introspection.table_names() if name.startswith("shop")], [])
    said("migrate", "auth", "zero")


finish("django")
