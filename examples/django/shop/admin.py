from django.contrib import admin

from shop.models import Order


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):
    list_display = ["code", "customer", "total", "placed"]
    search_fields = ["^code"]
    list_per_page = 100
    # Without a row for each of thousands of pages; the counter stays exact.
    list_max_show_all = 200
